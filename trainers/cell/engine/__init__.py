"""The SGLang server of a cell: its command line, its process, its client."""
