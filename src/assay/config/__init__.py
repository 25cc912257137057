"""Settings: what params.yaml may say, and how it is read."""
