import BlobCacheServer
import Testing

/// What a log of requests shows of their targets.
@Suite struct LoggedTargetTests {
  @Test(arguments: [
    ("/ui/enter?token=0123", "/ui/enter?token=REDACTED"),
    ("/v1/blobs?prefix=a&access_token=x%3Dy=z&limit=1", "/v1/blobs?prefix=a&access_token=REDACTED&limit=1"),
    ("/a?TOKEN=x&%74oken=y", "/a?TOKEN=REDACTED&%74oken=REDACTED"),
    ("/a?X-Amz-Signature=x&X-Amz-Security-Token=y", "/a?X-Amz-Signature=REDACTED&X-Amz-Security-Token=REDACTED"),
    ("/a?password=", "/a?password=REDACTED"), ("/a?b=1?token=2", "/a?b=1?token=2"),
    ("http://user:secret@host/a?b=c", "http://REDACTED@host/a?b=c"), ("http://a@b@host", "http://REDACTED@host"),
  ])
  func secretsAreLeftOut(target: String, logged: String) {
    #expect(LoggedTarget.text(target) == logged)
  }

  @Test(arguments: [
    "", "*", "/", "/v1/blobs/a%2Fb?lock", "/v1/blobs?prefix=token&&limit=1", "/a?", "/a?token", "/http://a@b",
    "/a?%zz=1",
    "http://host/a@b",
  ])
  func theRestIsShownAsItIs(target: String) {
    #expect(LoggedTarget.text(target) == target)
  }
}
