"""What a broker answers: requests to responses, without sockets, threads or a clock."""
