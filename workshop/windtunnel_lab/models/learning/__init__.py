"""Orders of algorithms, performance profiles, and training among peers on slow links."""
