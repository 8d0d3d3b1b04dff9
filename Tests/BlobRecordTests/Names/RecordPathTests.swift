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
}
