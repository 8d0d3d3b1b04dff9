#if Remote
  internal import NIOCore

  /// An incremental decoder with bounded memory for any input.
  struct RESPDecoder {
    struct Limits {
      var depth = 8
      var lineByteCount = 1 << 16
      var bulkByteCount = 1 << 21
      /// The total size of lines and strings. Objects are transferred in pieces, which are far smaller.
      var byteCount = 1 << 26
      var elementCount = 1 << 18
    }

    private enum Kind { case array, push, attribute }

    private struct Aggregate {
      let kind: Kind
      let count: Int
      var elements: [RESPValue] = []
    }

    private struct Bulk {
      let type: UInt8
      let byteCount: Int
    }

    private enum Item {
      case value(RESPValue)
      case aggregate(Aggregate)
    }

    private let limits: Limits
    private var open: [Aggregate] = []
    private var bulk: Bulk?
    private var elementCount = 0
    private var byteCount = 0
    /// The length of the incomplete line that was already searched for a line end.
    private var searched = 0

    init(_ limits: Limits = Limits()) { self.limits = limits }

    /// Removes the next value from the received bytes, or returns `nil` if more bytes are required.
    ///
    /// - Complexity: O(*n*) for the *n* bytes of a value, regardless of their fragmentation.
    /// - Throws: `RESPSyntaxError`, after which no further byte can be decoded.
    mutating func next(from bytes: inout ByteBuffer) throws(RESPSyntaxError) -> RESPValue? {
      while let item = try readItem(from: &bytes) {
        switch item {
        case .aggregate(let aggregate) where aggregate.count > 0:
          guard open.count < limits.depth else {
            throw RESPSyntaxError("has more than \(limits.depth) arrays in arrays")
          }
          open.append(aggregate)
        case .aggregate(let aggregate):
          if let value = fold(aggregate.kind) { return value }
        case .value(let value):
          if let value = fold(value) { return value }
        }
      }
      return nil
    }

    private mutating func fold(_ kind: Kind) -> RESPValue? {
      switch kind {
      case .array: fold(.array([]))
      case .push: fold(.push([]))
      case .attribute: nil
      }
    }

    /// Adds a value to the innermost open array, and returns the outermost value if it is complete.
    private mutating func fold(_ value: RESPValue) -> RESPValue? {
      var value = value
      while var last = open.popLast() {
        last.elements.append(value)
        guard last.elements.count == last.count else {
          open.append(last)
          return nil
        }
        switch last.kind {
        case .array: value = .array(last.elements)
        case .push: value = .push(last.elements)
        // An attribute is metadata of the following value, and not an element itself.
        case .attribute: return nil
        }
      }
      (elementCount, byteCount) = (0, 0)
      return value
    }
  }

  // MARK: - Items

  extension RESPDecoder {
    private mutating func readItem(from bytes: inout ByteBuffer) throws(RESPSyntaxError) -> Item? {
      if let bulk { return try readBulk(bulk, from: &bytes) }
      guard let line = try readLine(from: &bytes) else { return nil }
      try add(line.count)
      guard let type = line.first else { throw RESPSyntaxError("has an empty line") }
      let rest = line.dropFirst()
      switch type {
      case UInt8(ascii: "+"), UInt8(ascii: ","), UInt8(ascii: "("): return .value(.simple(Self.text(rest)))
      case UInt8(ascii: "-"): return .value(.error(Self.text(rest)))
      case UInt8(ascii: ":"):
        guard let number = Self.integer(rest) else { throw RESPSyntaxError("has a number that is none") }
        return .value(.integer(number))
      case UInt8(ascii: "_"): return .value(.null)
      case UInt8(ascii: "#"):
        guard rest.count == 1, let first = rest.first, first == UInt8(ascii: "t") || first == UInt8(ascii: "f") else {
          throw RESPSyntaxError("has a boolean that is none")
        }
        return .value(.boolean(first == UInt8(ascii: "t")))
      case UInt8(ascii: "$"), UInt8(ascii: "="), UInt8(ascii: "!"):
        guard let count = try length(rest, limit: limits.bulkByteCount) else { return .value(.null) }
        try add(count)
        let bulk = Bulk(type: type, byteCount: count)
        self.bulk = bulk
        return try readBulk(bulk, from: &bytes)
      case UInt8(ascii: "*"), UInt8(ascii: "~"): return try aggregate(.array, rest)
      case UInt8(ascii: ">"): return try aggregate(.push, rest)
      case UInt8(ascii: "%"): return try aggregate(.array, rest, valuesEach: 2)
      case UInt8(ascii: "|"): return try aggregate(.attribute, rest, valuesEach: 2)
      default: throw RESPSyntaxError("begins a value with the byte \(type)")
      }
    }

    private mutating func add(_ count: Int) throws(RESPSyntaxError) {
      byteCount += count
      guard byteCount <= limits.byteCount else {
        throw RESPSyntaxError("has a value of more than \(limits.byteCount) bytes")
      }
    }

    private mutating func aggregate(
      _ kind: Kind, _ text: ByteBufferView, valuesEach: Int = 1
    ) throws(RESPSyntaxError) -> Item {
      guard let count = try length(text, limit: limits.elementCount / valuesEach) else { return .value(.null) }
      elementCount += count * valuesEach
      guard elementCount <= limits.elementCount else {
        throw RESPSyntaxError("has more than \(limits.elementCount) values")
      }
      return .aggregate(Aggregate(kind: kind, count: count * valuesEach))
    }

    private mutating func readBulk(_ bulk: Bulk, from bytes: inout ByteBuffer) throws(RESPSyntaxError) -> Item? {
      guard bytes.readableBytes >= bulk.byteCount + 2 else { return nil }
      guard var content = bytes.readSlice(length: bulk.byteCount), bytes.readInteger(as: UInt16.self) == 0x0D0A else {
        throw RESPSyntaxError("has a string of another length than it says")
      }
      self.bulk = nil
      switch bulk.type {
      case UInt8(ascii: "!"): return .value(.error(String(buffer: content)))
      case UInt8(ascii: "="):
        // Three letters specify the kind of text.
        guard content.readBytes(length: 4)?.last == UInt8(ascii: ":") else {
          throw RESPSyntaxError("has a text without its kind")
        }
        return .value(.bulk(content))
      default: return .value(.bulk(content))
      }
    }

    private mutating func readLine(from bytes: inout ByteBuffer) throws(RESPSyntaxError) -> ByteBufferView? {
      let view = bytes.readableBytesView
      guard let end = view.dropFirst(searched).firstIndex(of: UInt8(ascii: "\n")) else {
        searched = view.count
        guard searched <= limits.lineByteCount else {
          throw RESPSyntaxError("has a line of more than \(limits.lineByteCount) bytes")
        }
        return nil
      }
      searched = 0
      let line = view[view.startIndex..<end]
      guard line.count <= limits.lineByteCount + 1, line.last == UInt8(ascii: "\r") else {
        throw RESPSyntaxError("has a line with a wrong end")
      }
      bytes.moveReaderIndex(forwardBy: line.count + 1)
      return line.dropLast()
    }

    private static func text(_ bytes: ByteBufferView) -> String { String(decoding: bytes, as: UTF8.self) }

    private static func integer(_ bytes: ByteBufferView) -> Int64? {
      bytes.count <= 20 ? Int64(text(bytes)) : nil
    }

    private func length(_ bytes: ByteBufferView, limit: Int) throws(RESPSyntaxError) -> Int? {
      guard let number = Self.integer(bytes), number >= -1 else { throw RESPSyntaxError("has a length that is none") }
      guard number <= limit else { throw RESPSyntaxError("has a length of \(number), and more than \(limit)") }
      return number == -1 ? nil : Int(number)
    }
  }

  /// The reason why bytes are not valid RESP, for a sentence whose subject is the source of the bytes.
  struct RESPSyntaxError: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }
  }
#endif
