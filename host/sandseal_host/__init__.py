"""Sandseal's host: verifies sealed bundles, runs their plugins in sandboxes and their models in batches.

Who may import whom, from the top (import-linter holds it):

    cli
    app                                                 the only place where the rooms are wired together
    desks                                               what the edge asks of the rooms
    lifecycle                                           models brought up, taken down, taken out of service
    api | vetting > loader                              api never sees runtime or sandbox; the others never see HTTP
    registry | serving | runtime | sandbox | observe    siblings: none imports another
    tensors
    settings
    errors | confinement | error_members
    seccomp
    sandseal_signing
"""
