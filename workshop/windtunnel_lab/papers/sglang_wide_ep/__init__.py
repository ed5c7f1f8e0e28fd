"""DeepSeek-V3 over 96 H100 with wide expert parallelism (SGLang team 2025)."""
