internal import PosixFiles
