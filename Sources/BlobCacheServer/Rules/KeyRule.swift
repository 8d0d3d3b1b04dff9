internal import BlobRecord

/// The requirements that a key imposes on its blob.
///
/// The rule depends only on the key, so a blob cannot evade it by another route to the same key.
enum KeyRule: Equatable {
  /// The payload must have the SHA-256 that the key ends with, as in Bazel's content-addressed storage.
  case content(ContentDigest)
  /// The content type, if there is one, must describe a product of Turborepo.
  case artifact
  /// A record is never replaced, as Nx specifies, so that nobody can exchange a result that others already use.
  case unchanging
  case none

  /// The prefix is compared first, because most keys have no rule and every request looks for one.
  init(_ key: BlobKey) {
    let bytes = key.string.utf8
    if bytes.starts(with: "bazel/".utf8) {
      let names = bytes.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
      let isContent = names.count > 2 && names[names.count - 2].elementsEqual("cas".utf8)
      let digest = isContent ? ContentDigest(Substring(names[names.count - 1])) : nil
      self = digest.map { .content($0) } ?? .none
    } else if bytes.starts(with: "turbo/".utf8) {
      self = .artifact
    } else if bytes.starts(with: "nx/".utf8) {
      self = .unchanging
    } else {
      self = .none
    }
  }

  var digest: ContentDigest? {
    if case .content(let digest) = self { digest } else { nil }
  }

  /// Returns a PUT with a body that fails at its end if it violates the rule.
  ///
  /// - Throws: 400 for a request that violates the rule.
  func checked(_ request: ServerRequest) throws(Refusal) -> ServerRequest {
    switch self {
    case .none: return request
    case .unchanging:
      var request = request
      request.fields.replace("If-None-Match", with: "*")
      return request
    case .artifact:
      guard let type = request.fields["Content-Type"], type.lowercased() != MediaType.unknown,
        TurboArtifact(contentType: type) == nil
      else { return request }
      throw Refusal(400, "the content type of a Turborepo artifact is \(TurboArtifact.essence)")
    case .content(let digest):
      // Readers of unfinished content could not yet know whether it matches the digest.
      guard ["afterCommit", nil].contains(request.fields["X-BlobCache-Visibility"]) else {
        throw Refusal(400, "what is named after its bytes is not seen before it is whole")
      }
      var request = request
      request.body = try request.body.checked(digest)
      return request
    }
  }
}
