"""`python -m windtunnel`: the command line."""

from windtunnel.cli.main import main

if __name__ == "__main__":
    main()
