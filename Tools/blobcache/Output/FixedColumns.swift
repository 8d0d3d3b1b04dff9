/// A table that is printed line by line, because its columns have known widths.
package struct FixedColumns {
  package enum Alignment { case left, right }

  struct Column {
    let title: String
    let width: Int
    var alignment = Alignment.left
  }

  let columns: [Column]

  /// The titles. The last column has no width, and needs none.
  func header(last title: String) -> String {
    row(columns.map(\.title), last: title)
  }

  /// - Parameter decorate: colours a cell that has its width already.
  func row(_ cells: [String], last: String, decorate: (Int, String) -> String = { $1 }) -> String {
    var line = ""
    for (index, (column, cell)) in zip(columns, cells).enumerated() {
      line += decorate(index, cell.padded(to: column.width, column.alignment)) + "  "
    }
    return line + last
  }
}

extension String {
  /// Spaces before or after the text, if it is shorter than `width`.
  package func padded(to width: Int, _ alignment: FixedColumns.Alignment = .left) -> String {
    let padding = String(repeating: " ", count: max(0, width - count))
    return alignment == .left ? self + padding : padding + self
  }
}
