import BlobCache
import Testing

@testable import BlobCacheRemote

/// The interpretation of S3's responses.
@Suite struct S3AnswerTests {
  private static let settings = S3Failure.Settings(
    bucket: "covers", region: "us-east-1", accessKey: "AKTEST", time: "20261126T194530Z")

  private func meaning(
    _ status: Int, _ body: String, method: String = "PUT", bucketRegion: String? = nil, retryAfter: Duration? = nil
  ) -> (kind: RemoteError.Kind, advice: String) {
    S3Failure(status: status, body: body.utf8).meaning(
      Self.settings, method, serverTime: "Thu, 26 Nov 2026 20:45:30 GMT", bucketRegion: bucketRegion,
      retryAfter: retryAfter)
  }

  @Test(
    arguments: [
      (404, "NoSuchBucket", .refused, "no bucket covers"),
      (400, "InvalidBucketName", .refused, "no bucket covers"),
      (403, "InvalidAccessKeyId", .refused, "does not know the access key AKTEST"),
      (403, "SignatureDoesNotMatch", .refused, "look at the secret key"),
      (
        403, "RequestTimeTooSkewed", .refused,
        "20261126T194530Z here, Thu, 26 Nov 2026 20:45:30 GMT there; set the clock"
      ),
      (403, "AccessDenied", .forbidden, "its policy for the bucket covers"),
      (403, "AllAccessDisabled", .refused, "is disabled"), (403, "AccountProblem", .refused, "is disabled"),
      (400, "ExpiredToken", .refused, "session token"),
      (503, "SlowDown", .throttled(nil), "pause"),
      (400, "RequestTimeout", .timedOut, "too slow"),
      (400, "EntityTooLarge", .unsupported, "too large"),
      (400, "KeyTooLongError", .unsupported, "too long"),
      (501, "NotImplemented", .unsupported, "capability"), (501, "NotImplemented", .unsupported, "checksums=false"),
      (400, "BadDigest", .failed, "changed on their way"),
      (500, "InternalError", .failed, "the server failed"),
      (404, "NoSuchKey", .failed, ""),
    ] as [(Int, String, RemoteError.Kind, String)])
  func anErrorNamesItsSetting(status: Int, code: String, kind: RemoteError.Kind, advice: String) {
    let found = meaning(status, "<?xml version=\"1.0\"?><Error><Code>\(code)</Code><Message>m</Message></Error>")
    #expect(found.kind == kind)
    #expect(advice.isEmpty || found.advice.contains(advice), "\(found.advice)")
  }

  @Test(arguments: [("GET", true), ("PUT", false), ("DELETE", false), ("list", false)])
  func aMissMayNeedTheRightToList(method: String, isTold: Bool) {
    let found = meaning(403, "<Error><Code>AccessDenied</Code></Error>", method: method)
    // A list concerns no single object.
    #expect(
      found.kind == (method == "list" ? .refused : .forbidden) && found.advice.contains("s3:ListBucket") == isTold)
  }

  @Test(
    arguments: [
      (
        400, "<Error><Code>AuthorizationHeaderMalformed</Code><Region>eu-west-1</Region></Error>", nil,
        "set region to eu-west-1"
      ),
      (
        301, "<Error><Code>PermanentRedirect</Code><Endpoint>covers.s3.eu-west-1.amazonaws.com</Endpoint></Error>",
        "eu-west-1", "set region to eu-west-1, and endpoint to covers.s3.eu-west-1.amazonaws.com"
      ),
      (301, "", nil, "the bucket covers is not in region us-east-1; set region"),
      (400, "", "eu-west-1", "set region to eu-west-1"),
    ] as [(Int, String, String?, String)])
  func aWrongRegionIsTold(status: Int, body: String, bucketRegion: String?, advice: String) {
    let found = meaning(status, body, bucketRegion: bucketRegion)
    #expect(found.kind == .refused)
    #expect(found.advice.contains(advice), "\(found.advice)")
  }

  @Test(
    arguments: [
      (403, .forbidden), (401, .refused), (429, .throttled(.seconds(7))), (503, .throttled(.seconds(7))),
      (504, .timedOut),
      (501, .unsupported), (413, .unsupported), (507, .failed), (502, .failed), (418, .failed),
    ] as [(Int, RemoteError.Kind)])
  func aStatusAloneIsUnderstood(status: Int, kind: RemoteError.Kind) {
    for body in ["", "<html>", "<Error/>", "\u{0}", "<Error><Code></Code></Error>"] {
      #expect(meaning(status, body, retryAfter: .seconds(7)).kind == kind)
    }
  }
}

/// The subset of XML that responses use.
@Suite struct XMLElementTests {
  @Test func aListIsRead() throws {
    let text = """
      <?xml version="1.0" encoding="UTF-8"?><!-- of a server -->
      <s3:ListBucketResult xmlns:s3="http://s3.amazonaws.com/doc/2006-03-01/" a='>'>
        <IsTruncated>true</IsTruncated><Prefix/>
        <Contents><Key>a &amp; b&lt;&gt;&quot;&apos;&#228;&#x1F600;</Key><Size>1</Size></Contents>
        <Contents ><Key><![CDATA[<raw> & ]]>x<!-- no -->y</Key></Contents>
      </s3:ListBucketResult>
      """
    let root = try #require(XMLElement(text.utf8))
    #expect(root.name == "ListBucketResult")
    #expect(root["IsTruncated"] == "true" && root["Prefix"] == "" && root["None"] == nil)
    #expect(
      root.children.filter { $0.name == "Contents" }.map { $0["Key"] } == ["a & b<>\"'ä\u{1F600}", "<raw> & xy"])
  }

  /// A combining mark after an escape joins the escaped character.
  @Test(arguments: [("R&amp;\u{301}", "R&\u{301}"), ("&lt;\u{301};\u{302}", "<\u{301};\u{302}")])
  func marksBehindEscapesAreRead(escaped: String, text: String) {
    #expect(XMLElement("<a>\(escaped)</a>".utf8)?.text.utf8.elementsEqual(text.utf8) == true)
  }

  @Test(arguments: [
    "", "text", "<a>", "<a></b>", "<a><b></a></b>", "<a", "<a b=\"", "<", "</a>", "<a>&none;</a>", "<a>&#xD800;</a>",
    "<a>&amp</a>", "<!DOCTYPE a [<!ENTITY b \"c\">]><a>&b;</a>", "<a><![CDATA[</a>", "<a><!-- </a>", "<?xml", "<>",
    "<!a>",
    String(repeating: "<a>", count: 20), String(repeating: "<a>", count: 17) + String(repeating: "</a>", count: 17),
  ])
  func whatIsNoneIsRefused(_ text: String) {
    #expect(XMLElement(text.utf8) == nil)
  }

  /// Arbitrary bytes cause neither a crash nor an endless loop.
  @Test func anyBytesAreRead() {
    var random = SplitMix(seed: 30)
    let pieces: [[UInt8]] =
      ["<", ">", "/", "a", "&", ";", "<!--", "-->", "<![CDATA[", "]]>", "\"", "<?", "?>", "=", " "]
      .map { Array($0.utf8) } + [[0xC3], [0xFF], [0]]
    for _ in 0..<5000 {
      let count = Int.random(in: 0...30, using: &random)
      _ = XMLElement((0..<count).flatMap { _ in pieces.randomElement(using: &random) ?? [] })
    }
  }
}
