"""The interface of the compiler for plug-ins, by subject. They import no other module of it."""
