import PosixFiles
import Testing
