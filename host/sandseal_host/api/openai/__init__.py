"""The OpenAI API: chat, completions, embeddings and the list of models, for clients that know nothing else."""
