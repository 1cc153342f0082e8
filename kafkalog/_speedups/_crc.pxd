# The checksums of ``crc.h``. A module that uses them calls `crc_setup` at import.
from libc.stdint cimport uint8_t, uint32_t

cdef extern from "crc.h" nogil:
    enum:
        CRC32C "KL_CRC32C"
        CRC32 "KL_CRC32"
    void crc_setup "kl_crc_setup"()
    uint32_t crc "kl_crc"(int kind, const uint8_t* data, size_t size) noexcept
