import BlobRecord
import Testing

@Suite struct RecordPathTests {
  @Test func pathsAreComparedAsBytes() throws {
    let layout = RecordLayout()
    let composed = try layout.path(for: "\u{E9}")
    let decomposed = try layout.path(for: "e\u{301}")
    #expect(composed != decomposed)
    #expect(Set([composed, decomposed, try layout.path(for: "\u{E9}")]).count == 2)
  }

  @Test func placeCountsInComparisons() throws {
    let separated = try RecordLayout().path(for: "abc")
    let flat = try RecordLayout(separatesDirectories: false).path(for: "abc")
    #expect(separated != flat)
    #expect(separated.relative == "ab/abc" && flat.relative == "abc")
  }

  /// The path of a key's file can be derived from the file name, which is all that a packed record has.
  @Test func aFileNameTellsThePath() throws {
    for arrangement in RecordArrangement.allCases {
      let layout = RecordLayout(arrangement: arrangement)
      #expect(try layout.path(ofFileName: "key%2F1") == layout.path(for: "key/1"))
      #expect(layout.path(ofFileName: "key%zz") == nil)
    }
  }
}
