package report

// WriteHTMLWithRows is WriteHTML for a page that takes so many rows, so that a test need not fill a real one.
var WriteHTMLWithRows = writeHTML
