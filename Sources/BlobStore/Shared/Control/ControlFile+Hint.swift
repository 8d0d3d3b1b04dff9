internal import BlobRecord
internal import Synchronization

extension ControlFile {
  /// The namings, whose indices are stored in the hint.
  private static let namings: [RecordNaming] = [.encoded, .verbatim, .sha256]
  private static let arrangements: [RecordArrangement] = [.flat, .prefix, .spread, .adaptive]

  var hint: DirectoryHint? {
    guard let words = hintWords(), words[0] == 1, let naming = Int(exactly: words[3]),
      Self.namings.indices.contains(naming), let arrangement = Int(exactly: words[4]),
      Self.arrangements.indices.contains(arrangement)
    else { return nil }
    return DirectoryHint(
      defaultExpiration: words[1], sizeLimit: words[2] > 0 ? words[2] : nil,
      layout: RecordLayout(naming: Self.namings[naming], arrangement: Self.arrangements[arrangement]))
  }

  /// Stores the hint word by word. Different programs may mix their words, because it is only a hint.
  func setHint(_ hint: DirectoryHint) {
    let words = [
      1, hint.defaultExpiration, hint.sizeLimit ?? 0, Int64(Self.namings.firstIndex(of: hint.layout.naming) ?? 0),
      Int64(Self.arrangements.firstIndex(of: hint.layout.arrangement) ?? 0),
    ]
    setHintWords(words)
  }

  /// The words of the hint: whether it is set, default expiration, size limit, naming, arrangement.
  func hintWords() -> [Int64]? {
    guard isMapped else { return nil }
    return ControlLayout.hintOffsets.map { counter($0) { $0.load(ordering: .relaxed) } }
  }

  /// Stores the hint, at most once while the file is open.
  func leaveHint(_ hint: DirectoryHint) {
    guard !hasLeftHint.load(ordering: .relaxed), !hasLeftHint.exchange(true, ordering: .relaxed) else { return }
    if self.hint != hint { setHint(hint) }
  }

  func setHintWords(_ words: [Int64]) {
    guard isMapped else { return }
    // The first word is stored last, because it indicates that the others are valid.
    for (offset, word) in zip(ControlLayout.hintOffsets, words).reversed() {
      counter(offset) { $0.store(word, ordering: .releasing) }
    }
  }
}
