"""Results on disk: layout, checksums, storage."""
