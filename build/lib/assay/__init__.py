"""assay: measure a language model, train it with GRPO, measure it again, and publish evidence anyone can
check."""
