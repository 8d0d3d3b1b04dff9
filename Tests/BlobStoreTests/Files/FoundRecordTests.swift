import BlobRecord
import SystemPackage
import Testing

@testable import BlobStore

@Suite struct FoundRecordTests {
  /// What neither opens nor tells its status may be locked, and counts no bytes.
  @Test func aFileWithoutAStatusCountsNoBytes() throws {
    let found = FoundRecord(try RecordLayout().path(for: "key"), unreadable: Errno.permissionDenied, nil)
    // Values, because the macro captures what it is given, and a found record cannot be.
    let (byteCount, mayBeLocked, isLocked, header) = (found.byteCount, found.mayBeLocked, found.isLocked, found.header)
    #expect(byteCount == 0)
    #expect(mayBeLocked)
    #expect(!isLocked)
    #expect(header == nil)
  }
}
