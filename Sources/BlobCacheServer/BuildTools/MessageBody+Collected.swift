extension MessageBody {
  /// The whole of a small body.
  ///
  /// - Returns: nil for one of more bytes, as soon as that shows.
  func collected(atMost limit: Int) async throws -> Data? {
    if let byteCount, byteCount > Int64(limit) { return nil }
    switch self {
    case .none, .omitted, .file: return Data()
    case .bytes(let data): return data
    case .stream(_, let pieces):
      var data = Data()
      for try await piece in pieces {
        data.append(piece)
        guard data.count <= limit else { return nil }
      }
      return data
    }
  }
}
