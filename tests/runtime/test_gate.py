import threading

from sandseal_host.runtime.gate import Gate


def test_many_may_be_within_together():
    gate, both = Gate(), threading.Barrier(2, timeout=60)

    def enter() -> None:
        with gate.shared():
            both.wait()

    threads = [threading.Thread(target=enter) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not both.broken


def test_one_is_alone_and_goes_before_those_who_come_later():
    gate, order = Gate(), []
    waits, leave = threading.Event(), threading.Event()

    def first() -> None:
        with gate.shared():
            waits.set()
            leave.wait(60)
            order.append("first")

    def alone() -> None:
        with gate.alone():
            order.append("alone")

    def later() -> None:
        with gate.shared():
            order.append("later")

    threads = [threading.Thread(target=work) for work in (first, alone, later)]
    threads[0].start()
    assert waits.wait(60)
    threads[1].start()
    while not gate._waiting:
        pass
    threads[2].start()
    leave.set()
    for thread in threads:
        thread.join(60)
    assert order == ["first", "alone", "later"]
