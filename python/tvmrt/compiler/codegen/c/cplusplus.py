"""What firmware's C needs beside to be C++ as well, for projects that compile all files so."""

# In C++ compilers warn of members that designated initialisers leave out, though these are 0 there
# as they are in C; and a keyword of C has another name.
WORDS = [
    "#ifdef __cplusplus",
    "#define restrict __restrict",
    "#if defined(__GNUC__)",
    '#pragma GCC diagnostic ignored "-Wmissing-field-initializers"',
    "#endif",
    "#endif",
    "",
]

BEGIN_C = ["#ifdef __cplusplus", 'extern "C" {', "#endif", ""]
END_C = ["", "#ifdef __cplusplus", "}", "#endif"]
