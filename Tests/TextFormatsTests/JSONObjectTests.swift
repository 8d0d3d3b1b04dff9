import Testing
import TextFormats

@Suite struct JSONObjectTests {
  @Test func membersKeepTheirOrder() {
    var object = JSONObject(type: "status")
    object.add("b", "text")
    object.add("a", 7)
    object.add("none", nil as Int?)
    object.add("flag", true)
    object.add("time", seconds: 1.234_567_89)
    object.add("share", ratio: nil)
    object.add("list", ["x", "y"])
    var inner = JSONObject()
    inner.add("n", -1)
    object.add("inner", inner)
    object.add("all", [inner, inner])
    #expect(
      object.text
        == #"{"type":"status","b":"text","a":7,"none":null,"flag":true,"time":1.234568,"share":null,"list":["x","y"],"#
        + #""inner":{"n":-1},"all":[{"n":-1},{"n":-1}]}"#)
  }

  @Test(arguments: [
    ("", #""#), ("ä\u{1F600}/", "ä\u{1F600}/"), (#"""#, #"\""#), (#"\"#, #"\\"#), ("\n", #"\n"#), ("\u{0}", #"\u0000"#),
    ("\u{1F}\u{7F}", #"\u001f\u007f"#), ("\"\u{301}", "\\\"\u{301}"),
  ])
  func stringsAreEscaped(text: String, escaped: String) {
    var object = JSONObject()
    object.add("a", text)
    #expect(object.text == "{\"a\":\"" + escaped + "\"}")
  }

  @Test(arguments: [(true, #"{"type":"t","a":"\t\r"}"#), (false, #"{"type":"t","a":"\u0009\u000d"}"#)])
  func tabsAreAbbreviatedOrNot(abbreviatesTabs: Bool, text: String) {
    var object = JSONObject(type: "t", abbreviatesTabs: abbreviatesTabs)
    object.add("a", "\t\r")
    #expect(object.text == text)
  }
}
