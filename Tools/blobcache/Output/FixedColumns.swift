/// A table that is printed line by line because the widths of its columns are fixed.
package struct FixedColumns {
  package enum Alignment { case left, right }

  struct Column {
    let title: String
    let width: Int
    var alignment = Alignment.left
  }

  let columns: [Column]

  /// Returns the titles. The last column needs no width.
  func header(last title: String) -> String {
    row(columns.map(\.title), last: title)
  }

  /// - Parameter decorate: A closure that colours a cell that is already padded.
  func row(_ cells: [String], last: String, decorate: (Int, String) -> String = { $1 }) -> String {
    var line = ""
    for (index, (column, cell)) in zip(columns, cells).enumerated() {
      line += decorate(index, cell.padded(to: column.width, column.alignment)) + "  "
    }
    return line + last
  }
}

extension String {
  /// Returns the text padded with spaces if it is shorter than `width`.
  package func padded(to width: Int, _ alignment: FixedColumns.Alignment = .left) -> String {
    let padding = String(repeating: " ", count: max(0, width - count))
    return alignment == .left ? self + padding : padding + self
  }
}
