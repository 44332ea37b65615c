"""Lines that let the generated C of firmware compile as C++ as well."""

# C++ compilers warn about members missing from designated initialisers, although they are
# zero-initialised as in C. The keyword ``restrict`` has another name.
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
