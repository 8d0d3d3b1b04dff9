import BlobRecord
import SystemPackage
import Testing

@testable import BlobStore

@Suite struct FoundRecordTests {
  /// What neither opens nor tells its status may be locked, and counts no bytes.
  @Test func aFileWithoutAStatusCountsNoBytes() throws {
    let found = FoundRecord(try RecordLayout().path(for: "key"), unreadable: Errno.permissionDenied, nil)
    #expect(found.byteCount == 0)
    #expect(found.mayBeLocked)
    #expect(!found.isLocked)
    #expect(found.header == nil)
  }
}
