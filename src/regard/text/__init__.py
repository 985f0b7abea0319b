"""Sources of text: files, built-in texts, parallel, labelled and captioned text, puzzles."""
