#!/bin/bash
set -e
cd /app
echo truck > key.txt
echo library > total.txt
echo white > report.txt
