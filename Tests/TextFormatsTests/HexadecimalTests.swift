import Testing
import TextFormats

@Suite struct HexadecimalTests {
  @Test(arguments: [([], ""), ([0], "00"), ([0x0F, 0xA0, 0xFF], "0fa0ff")] as [([UInt8], String)])
  func bytesAreWrittenAndRead(bytes: [UInt8], text: String) {
    #expect(Hexadecimal.text(bytes) == text)
    #expect(Hexadecimal.bytes(text) == bytes)
    #expect(Hexadecimal.bytes(text.uppercased()) == bytes)
  }

  @Test(arguments: ["0", "000", "0g", "g0", " 0", "0x00", "+1", "é"]) func otherTextsAreNoBytes(text: String) {
    #expect(Hexadecimal.bytes(text) == nil)
  }

  @Test(arguments: [(0, 1, "0"), (0, 2, "00"), (0xAB, 4, "00AB"), (0xABCDE, 4, "ABCDE")] as [(UInt, Int, String)])
  func numbersHaveTheirLeastDigits(number: UInt, digits: Int, text: String) {
    #expect(Hexadecimal.text(number, digits: digits) == text)
  }

  @Test func everyByteIsADigitOrNot() {
    for byte in UInt8.min ... .max {
      let text = String(decoding: [byte], as: UTF8.self)
      let isDigit = byte < 0x80 && byte != UInt8(ascii: "+") && byte != UInt8(ascii: "-")
      #expect(Hexadecimal.value(byte) == (isDigit ? UInt8(text, radix: 16) : nil))
      let isLowerCase = (UInt8(ascii: "a")...UInt8(ascii: "f")).contains(byte)
      #expect(Hexadecimal.upperCaseValue(byte) == (isLowerCase ? nil : Hexadecimal.value(byte)))
    }
  }
}
