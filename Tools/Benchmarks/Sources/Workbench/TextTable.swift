/// A table with titles and aligned columns.
package struct TextTable: CustomStringConvertible {
  private let lines: [[String]]
  private let texts: Set<Int>

  /// - Parameter texts: The left-aligned columns; the others contain numbers.
  package init(titles: [String], rows: [[String]], texts: Set<Int>) {
    lines = [titles] + rows
    self.texts = texts
  }

  package var description: String {
    let widths = lines[0].indices.map { column in lines.map { $0[column].count }.max() ?? 0 }
    return lines.map { line in
      line.indices.map { column in
        let padding = String(repeating: " ", count: widths[column] - line[column].count)
        return texts.contains(column) ? line[column] + padding : padding + line[column]
      }
      .joined(separator: "  ").trimmingSuffix(" ")
    }
    .joined(separator: "\n")
  }
}

extension String {
  fileprivate func trimmingSuffix(_ character: Character) -> String {
    String(reversed().drop { $0 == character }.reversed())
  }
}
