"""Export of generated sources: libraries, folders, archives."""
