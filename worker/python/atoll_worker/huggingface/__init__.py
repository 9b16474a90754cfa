"""Hugging Face models in an Atoll run, without code: the worker of [model] kind = "huggingface".

The daemon starts `atoll-hf-worker` (command.py). It reads the folder that [model] path names,
trains what AutoModelForCausalLM makes of it on the run's data, and exports a run's state as a
folder again.
PyTorch, transformers and PEFT are imported only where they are used: a machine without them is told
what to install.
"""
