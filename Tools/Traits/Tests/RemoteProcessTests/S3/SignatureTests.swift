import BlobCache
import Foundation
import Testing

@testable import BlobCacheRemote

/// The signatures that other implementations compute for the same requests.
@Suite struct SignatureTests {
  struct Vector: Sendable, CustomTestStringConvertible {
    let method: String
    /// The path with its escapes.
    let path: String
    var parameters: [(String, String)] = []
    var fields: [(String, String)] = []
    var body = ""
    var token: String?
    let signature: String

    var testDescription: String { "\(method) \(path)" }
  }

  /// The examples in Amazon's documentation, "Signature calculations for the authorization header".
  private static let documented = [
    Vector(
      method: "GET", path: "/test.txt", fields: [("range", "bytes=0-9")],
      signature: "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"),
    Vector(
      method: "PUT", path: "/test%24file.text",
      fields: [("date", "Fri, 24 May 2013 00:00:00 GMT"), ("x-amz-storage-class", "REDUCED_REDUNDANCY")],
      body: "Welcome to Amazon S3.",
      signature: "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"),
    Vector(
      method: "GET", path: "/", parameters: [("lifecycle", "")],
      signature: "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"),
    Vector(
      method: "GET", path: "/", parameters: [("prefix", "J"), ("max-keys", "2")],
      signature: "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"),
  ]

  /// Computed by botocore 1.43.11.
  private static let computed = [
    Vector(
      method: "GET", path: "/cache/plain",
      signature: "d791c266c7a5658c13b4ffa4d977b792ea134d78afda1dde6ff9ed10385ad64a"),
    Vector(
      method: "PUT", path: "/cache/a%20b/%C3%A4", fields: [("x-amz-checksum-crc32", "AAAAAA==")], body: "body",
      signature: "246777a2a5379b80a15c4e8d6b0550ce8203869c8a1ed22c36fd830e435c57d2"),
    Vector(
      method: "PUT", path: "/cache/album%252F42/%F0%9F%98%80", fields: [("x-amz-checksum-crc32", "AAAAAA==")],
      body: "body",
      signature: "8d17137cd1e5fea44d1dcf95601997666ef48a564a2bfb63c7d5b6c096ffbdd0"),
    Vector(
      method: "GET", path: "/cache/x%27%28q%29%21%2A%3B%24%40%3A%2C%26%3D%2B~",
      signature: "1adf946a5826740b90de8986fd3f6e78d542e463e1216bd199db3e81457d506c"),
    Vector(
      method: "GET", path: "/cache", parameters: [("prefix", "a b/ä&=+~\u{1F600}%2F"), ("list-type", "2")],
      signature: "7752146435b3f7024a5a91b44c2fb207f5fc9980435622529507d1e7c22cb42e"),
    Vector(
      method: "DELETE", path: "/cache/with%20token", token: "session/token==",
      signature: "a27d310009d3af46638586e3384dc516349d921b863515b152e716a2b3bfb22c"),
  ]

  private func authorization(
    _ vector: Vector, host: String, _ signature: SignatureV4, _ credentials: S3Credentials, at seconds: Int64
  ) -> String {
    let time = UTCTime(UnixTime(seconds: seconds))
    let payload = SignatureV4.digest(of: Data(vector.body.utf8))
    var fields = vector.fields + [("host", host), ("x-amz-content-sha256", payload), ("x-amz-date", time.text)]
    if let token = credentials.sessionToken { fields.append(("x-amz-security-token", token)) }
    let request = SignatureV4.Request(
      method: vector.method, path: vector.path,
      query: SignatureV4.query(vector.parameters.map { ($0.0, $0.1) }), fields: fields.map { ($0.0, $0.1) },
      payload: payload)
    return signature.authorization(request, by: credentials, at: time)
  }

  @Test(arguments: documented) func theDocumentedOnesAreMade(_ vector: Vector) {
    let credentials = S3Credentials(
      accessKey: "AKIAIOSFODNN7EXAMPLE", secretKey: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
    let text = authorization(
      vector, host: "examplebucket.s3.amazonaws.com", SignatureV4(region: "us-east-1"), credentials, at: 1_369_353_600)
    #expect(text.hasPrefix("AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, "))
    #expect(text.hasSuffix("Signature=\(vector.signature)"))
  }

  @Test(arguments: computed) func othersSignAlike(_ vector: Vector) {
    let signature = SignatureV4(region: "eu-central-1")
    let credentials = S3Credentials(accessKey: "AKTEST", secretKey: "SK/test+secret", sessionToken: vector.token)
    // A second signature reuses the signing key; another secret or day needs a new one.
    let text = authorization(vector, host: "127.0.0.1:8333", signature, credentials, at: 1_795_722_330)
    var other = credentials
    other.secretKey = "other"
    let others = [
      authorization(vector, host: "127.0.0.1:8333", signature, other, at: 1_795_722_330),
      authorization(vector, host: "127.0.0.1:8333", signature, credentials, at: 1_795_722_330 + 86_400),
    ]
    #expect(text.hasSuffix("Signature=\(vector.signature)"))
    #expect(Set(others + [text]).count == 3)
    #expect(authorization(vector, host: "127.0.0.1:8333", signature, credentials, at: 1_795_722_330) == text)
  }

  @Test(
    arguments: [
      (0, "19700101T000000Z"), (951_782_400, "20000229T000000Z"), (1_795_722_330, "20261126T194530Z"),
      (4_107_542_399, "21000228T235959Z"), (-5, "19700101T000000Z"),
    ] as [(Int64, String)])
  func timesAreWritten(seconds: Int64, text: String) {
    #expect(UTCTime(UnixTime(seconds: seconds)).text == text)
  }

  /// Spaces in fields are collapsed, as a server does before it compares.
  @Test func theCanonicalFormIsThatOfTheRules() {
    let request = SignatureV4.Request(
      method: "GET", path: "/", query: SignatureV4.query([("b", "2"), ("a", "x y"), ("a", "")]),
      fields: [("x-amz-b", "  two   words "), ("host", "h")], payload: SignatureV4.unsignedPayload)
    #expect(
      SignatureV4.canonical(request)
        == "GET\n/\na=&a=x%20y&b=2\nhost:h\nx-amz-b:two words\n\nhost;x-amz-b\nUNSIGNED-PAYLOAD")
  }
}
