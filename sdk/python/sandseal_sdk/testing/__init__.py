"""What `sandseal test` and `sandseal bench` do with a built plugin; harness.py beside this is the way in.

cases        cases/*.json
oracle       the same function under plain Python
comparison   outputs against those that a case or plain Python wants
timing       how long calls take
watch        when to test again
"""
