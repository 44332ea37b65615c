"""What plug-ins use of the compiler, by subject. Plug-ins import nothing else of it."""
