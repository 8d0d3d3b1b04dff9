import Testing
import TextFormats

@Suite struct PrometheusTextTests {
  @Test func aFamilyIsFollowedByItsSeries() {
    var metrics = PrometheusText()
    metrics.family("hits_total", .counter, "Loads.")
    metrics.series("hits_total", [("directory", "/a"), ("for", "loads")], 7)
    metrics.family("sound", .gauge, "Whether.")
    metrics.series("sound", [], 0.5)
    #expect(
      metrics.text == """
        # HELP hits_total Loads.
        # TYPE hits_total counter
        hits_total{directory="/a",for="loads"} 7
        # HELP sound Whether.
        # TYPE sound gauge
        sound 0.5

        """)
  }

  @Test(arguments: [("a b", "a b"), (#"a\b"#, #"a\\b"#), ("\"", #"\""#), ("a\r\nb", "a\r\\nb")])
  func labelsAreEscaped(value: String, escaped: String) {
    var metrics = PrometheusText()
    metrics.series("a", [("b", value)], 1)
    #expect(metrics.text == "a{b=\"\(escaped)\"} 1\n")
  }
}
