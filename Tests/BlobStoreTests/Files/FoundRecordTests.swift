import BlobRecord
import SystemPackage
import Testing

@testable import BlobStore

@Suite struct FoundRecordTests {
  /// A file that can neither be opened nor examined may be locked, and counts no bytes.
  @Test func aFileWithoutAStatusCountsNoBytes() throws {
    let found = FoundRecord(try RecordLayout().path(for: "key"), unreadable: Errno.permissionDenied, nil)
    // The macro captures its operands, and a found record cannot be captured, so values are compared.
    let (byteCount, mayBeLocked, isLocked, header) = (found.byteCount, found.mayBeLocked, found.isLocked, found.header)
    #expect(byteCount == 0)
    #expect(mayBeLocked)
    #expect(!isLocked)
    #expect(header == nil)
  }
}
