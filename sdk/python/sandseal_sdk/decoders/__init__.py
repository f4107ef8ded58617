"""Language models as bundle folders: out of GGUF files, Hugging Face's folders, and graphs of onnxruntime-genai.

From the top: `bundle` writes the folder, `graph` the decoder with `weight_file` and `quantise`; `gguf_source` and
`hf_source` are the `source`s that it is built from, each with its text; `genai_folder` is copied.
"""
