import BlobCacheRemote
import Testing

@Suite struct ProductTests {
  /// One import names the tier and its engines.
  @Test func theTierIsNamedByTheProduct() {
    #expect(RemoteCapabilities().notes.isEmpty)
  }
}
