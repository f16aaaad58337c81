def run_command(a, b, c):
    return 0
