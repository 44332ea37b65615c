"""The option that writes expected graphs."""


def pytest_addoption(parser):
    parser.addoption(
        "--update", action="store_true", help="write what passes make into the files of graphs"
    )
