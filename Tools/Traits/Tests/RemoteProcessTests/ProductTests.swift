import BlobCacheRemote
import Testing

@Suite struct ProductTests {
  /// One import makes the tier and its engines available.
  @Test func theTierIsNamedByTheProduct() {
    #expect(RemoteCapabilities().notes.isEmpty)
  }
}
