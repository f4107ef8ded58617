"""Text from decoders, a token at a time.

lane        GenerationLane: the thread, and the streams of those who read
engine      does what is planned: copies between slots, runs, the choice of tokens
scheduler   who has a slot, and what runs next; pure. seats: who is where; pace: what the less urgent may have
request     what is asked and what streams yield; sequence: what changes about it; writer, stream: its way out
prefixes    prompts that others may begin with
sampling, drawing, detokeniser, stops, vocabulary, constraint, text      tokens from logits, text from tokens, and back
tool_calls  calls of functions in answers
"""
