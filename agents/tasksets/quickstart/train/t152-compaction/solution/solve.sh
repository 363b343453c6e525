#!/bin/bash
set -e
cd /app
echo horse > text.txt
echo milk > score.txt
echo onion > names.txt
