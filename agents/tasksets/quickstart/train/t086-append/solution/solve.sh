#!/bin/bash
set -e
cd /app
echo sharp >> note.txt
echo pink > total.txt
