internal import BlobCache

enum HTTPFailure {
  static func meaning(
    of status: Int, retryAfter: Duration?, credential: HTTPCredential, method: String, location: String? = nil
  ) -> (kind: RemoteError.Kind, advice: String) {
    switch status {
    case 300..<400:
      (.refused, "the endpoint has moved\(location.map { " to \(withoutSecrets($0))" } ?? ""); set endpoint to that")
    case 401: (.refused, "the server does not know the caller; look at \(credential.setting)")
    case 403: (.forbidden, "the server does not allow it; look at the rights of \(credential.setting)")
    case 408, 504: (.timedOut, "the server waited too long")
    case 409 where method == "PUT", 500 where method == "PUT":
      (.failed, "the server failed, or makes no collections; nginx needs create_full_put_path on (capability)")
    case 405 where method == "DELETE":
      (.unsupported, "the server removes nothing when it is told to, as bazel-remote; it makes room by itself")
    case 405, 501: (.unsupported, "the server lacks this capability; look at the path of the endpoint")
    case 413: (.unsupported, "the object is too large for the server; lower the largest payload that goes there")
    case 414: (.unsupported, "the name is too long for the server")
    case 429, 503: (.throttled(retryAfter), "the server asks for a pause")
    case 508: (.refused, "the endpoint leads back to the server that asks it; set endpoint to another one")
    case 507: (.failed, "the server's disk is full")
    case 400..<500: (.failed, "look at the endpoint")
    default: (.failed, "the server failed")
    }
  }

  /// Removes the user, query and fragment, which may contain signatures and tokens.
  static func withoutSecrets(_ location: String) -> String {
    let place = location.prefix { !"?#".contains($0) }
    guard let at = place.lastIndex(of: "@") else { return String(place.prefix(200)) }
    let scheme = place.firstRange(of: "://").map { place[..<$0.upperBound] } ?? ""
    return String("\(scheme)\(place[place.index(after: at)...])".prefix(200))
  }
}
