"""Compiled kernels. Import them where they are first needed: numba is slow to import."""
