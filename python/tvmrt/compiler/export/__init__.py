"""From generated sources to artefacts on disk: libraries, folders, archives."""
