"""An example of each thing that a plug-in can add; docs/how-to/write-a-plugin.md explains it."""
